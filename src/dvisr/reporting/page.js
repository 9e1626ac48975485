"use strict";
// Draws the figures and answers the page's controls.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const columns = read("columns");
  const drawn = new Map(); // the id of a place on the page -> its Bokeh document

  const draw = async () => {
    Bokeh.set_log_level("error");
    const known = new Set();
    for (const item of read("figures")) {
      await Bokeh.embed.embed_item(item);
      for (const doc of Bokeh.documents) {
        if (!known.has(doc)) {
          known.add(doc);
          drawn.set(item.target_id, doc);
        }
      }
    }
    document.documentElement.dataset.drawn = drawn.size;
  };

  const choose = (place) => {
    for (const panel of document.querySelectorAll(".panel")) {
      panel.classList.toggle("chosen", panel.dataset.place === place);
    }
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choose === place));
    }
  };
  for (const button of document.querySelectorAll("[data-choose]")) {
    button.addEventListener("click", () => {
      choose(button.dataset.choose);
      if (button.dataset.go) document.getElementById(button.dataset.go).scrollIntoView();
    });
  }

  // A horizontal axis for every figure of the section: the prediction, or a column.
  const replot = (section, choice) => {
    for (const place of section.querySelectorAll(".plot")) {
      const doc = drawn.get(place.id);
      const rows = doc && doc.get_model_by_name("rows");
      if (!rows || !place.closest("figure").classList.contains("against")) continue;
      const data = { ...rows.data };
      if (!data.first) data.first = data.x;
      data.x = choice === "predicted" ? data.first : columns[Number(choice)];
      rows.data = data;
      const diagonal = doc.get_model_by_name("diagonal");
      if (diagonal) diagonal.visible = choice === "predicted";
    }
    for (const name of section.querySelectorAll(".axis-name")) {
      name.textContent = section.querySelector("select.axis").selectedOptions[0].textContent;
    }
  };
  for (const select of document.querySelectorAll("select.axis")) {
    select.addEventListener("change", () => replot(select.closest("section"), select.value));
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const code = document.getElementById(button.dataset.copy);
      const range = document.createRange();
      range.selectNodeContents(code);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        button.textContent = "selected";
      }
    });
  }

  draw();
})();
