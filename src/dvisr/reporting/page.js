"use strict";
// Draws the figures, follows the reader's light or dark scheme, and answers the page's controls.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const columns = read("columns");
  const drawn = new Map(); // the id of a place on the page -> its Bokeh document
  const schemes = {
    light: { text: "#3d4650", line: "#9aa4ae", grid: "#e4e8ec" },
    dark: { text: "#c5ccd3", line: "#66707a", grid: "#2c343c" },
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let isPrinting = false;

  const colour = (model, set) => {
    if (/Axis$/.test(model.type)) {
      model.axis_label_text_color = set.text;
      model.major_label_text_color = set.text;
      model.axis_line_color = set.line;
      model.major_tick_line_color = set.line;
    } else if (model.type === "Grid") {
      model.grid_line_color = set.grid;
    }
  };
  const recolour = () => {
    const set = dark.matches && !isPrinting ? schemes.dark : schemes.light;
    for (const doc of drawn.values()) {
      for (const model of doc._all_models.values()) colour(model, set);
    }
  };

  const draw = async () => {
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
    recolour();
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

  dark.addEventListener("change", recolour);
  window.addEventListener("beforeprint", () => { isPrinting = true; recolour(); });
  window.addEventListener("afterprint", () => { isPrinting = false; recolour(); });
  draw();
})();
