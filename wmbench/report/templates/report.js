"use strict";
// Sorting, filtering, texts and charts of a report. Text from models only ever becomes text nodes, never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector, root = document) => root.querySelector(selector);
  const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const fill = (select, options) =>
    select.replaceChildren(...options.map(([value, label]) => {
      const option = make("option", "", label);
      option.value = value;
      return option;
    }));

  // --- the table ---------------------------------------------------------------------------------------------------

  const table = find("#results");
  const filters = find("#filters");
  const body = find("tbody", table);
  const rows = findAll("tr", body);
  const order = { key: "", down: false };

  const valueOf = (row, key) => {
    if (!key) return "0"; // the order of the runs
    const cell = find(`[data-key="${CSS.escape(key)}"]`, row);
    return cell.dataset[filters.elements.rule.value] ?? cell.dataset.value; // only rates differ by the rule
  };

  const isText = (key) => ["scheme", "attack", "group"].includes(key);

  function sortRows() {
    const sign = order.down ? -1 : 1;
    const sorted = rows.map((row, index) => ({ row, index, value: valueOf(row, order.key) })).sort((a, b) => {
      if (a.value === undefined || b.value === undefined) {
        return (a.value === undefined) - (b.value === undefined) || a.index - b.index; // no figure: always last
      }
      const difference = isText(order.key) ? a.value.localeCompare(b.value) : Number(a.value) - Number(b.value);
      return sign * difference || a.index - b.index;
    });
    body.append(...sorted.map((item) => item.row));
    for (const button of findAll("[data-sort]", table)) {
      const state = button.dataset.sort === order.key ? (order.down ? "descending" : "ascending") : "none";
      button.closest("th").setAttribute("aria-sort", state);
    }
    filters.elements.sort.value = order.key;
  }

  function sortBy(key) {
    order.down = order.key === key ? !order.down : !isText(key); // figures: the best first
    order.key = key;
    sortRows();
  }

  function filterRows() {
    const wanted = Object.fromEntries(new FormData(filters));
    const search = wanted.search.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const { scheme, attack, group } = row.dataset;
      const hit = (!wanted.scheme || wanted.scheme === scheme) && (!wanted.attack || wanted.attack === attack) &&
        (!wanted.group || wanted.group === group) && `${scheme} ${attack} ${group}`.toLowerCase().includes(search);
      row.hidden = !hit;
      shown += hit;
    }
    find("#count").value = `${shown} of ${rows.length} rows`;
  }

  table.addEventListener("click", (event) => {
    const sorter = event.target.closest("[data-sort]");
    if (sorter) sortBy(sorter.dataset.sort);
    const texts = event.target.closest("[data-texts]");
    if (texts) showTexts(texts.dataset.texts, texts.closest("tr").dataset.attack);
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", (event) => {
    if (event.target.name === "rule") {
      table.dataset.rule = event.target.value;
      if (order.key) sortRows();
    }
    if (event.target.name === "sort") sortBy(event.target.value);
    filterRows();
  });
  filterRows();

  // --- the texts ---------------------------------------------------------------------------------------------------

  const chooser = find("#chooser");
  const chosenRun = () => data.runs[Number(chooser.elements.run.value)];

  function passage(found) {
    const article = make("article", "passage");
    const head = make("header");
    head.append(make("h3", "", found.title));
    article.append(head);
    if (found.error) {
      article.append(make("p", "judgement", `no text: ${found.error}`));
      return article;
    }
    if (found.p !== null) {
      head.append(make("span", `verdict ${found.detected ? "found" : "quiet"}`, found.detected ? "watermark found" : "not found"));
      article.append(make("p", "judgement", `p = ${found.p.toPrecision(3)}, score ${found.score.toPrecision(4)}, view ${found.view}`));
    }
    const text = make("p", "text");
    text.dir = "auto";
    for (const [piece, shade, tip] of found.pieces) {
      if (shade === null) {
        text.append(piece);
        continue;
      }
      const mark = make("mark", `shade-${shade}`, piece);
      mark.title = tip;
      text.append(mark);
    }
    article.append(text);
    return article;
  }

  function drawTexts() {
    const run = chosenRun();
    const example = run.examples[Number(chooser.elements.example.value)];
    find("#prompt").textContent = example.prompt;
    find("#no-evidence").hidden = !run.no_evidence;
    find("#no-evidence").textContent = `Without evidence: ${run.no_evidence}`;
    const attack = chooser.elements.attack.value;
    const shown = example.passages.filter((found) => ["clean", "marked", attack].includes(found.kind));
    find("#passages").replaceChildren(...shown.map(passage));
  }

  function chooseRun() {
    const run = chosenRun();
    const before = chooser.elements.attack.value;
    fill(chooser.elements.example, run.examples.map((example, index) => [index, example.prompt]));
    fill(chooser.elements.attack, run.attacks.map((name) => [name, name]));
    if (run.attacks.includes(before)) chooser.elements.attack.value = before;
    chooser.elements.attack.disabled = !run.attacks.length;
    drawTexts();
  }

  function showTexts(name, attack) {
    chooser.elements.run.value = String(data.runs.findIndex((run) => run.name === name));
    chooseRun();
    if (chosenRun().attacks.includes(attack)) chooser.elements.attack.value = attack;
    drawTexts();
    find("#texts").scrollIntoView();
    chooser.elements.run.focus({ preventScroll: true });
  }

  if (chooser) {
    fill(chooser.elements.run, data.runs.map((run, index) => [index, run.title]));
    chooser.addEventListener("submit", (event) => event.preventDefault());
    chooser.addEventListener("input", (event) => (event.target.name === "run" ? chooseRun() : drawTexts()));
    chooseRun();
  }

  // --- the charts --------------------------------------------------------------------------------------------------

  const probe = make("span");
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const views = {};
  const tip = find("#tip");

  function showTip(_, event, __, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    tip.replaceChildren(...Object.entries(value).map(([name, shown]) => {
      const line = make("div");
      line.append(make("span", "", name), make("b", "", String(shown)));
      return line;
    }));
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
  }

  function config() {
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent",
      font,
      view: { stroke: null },
      rule: { color: soft },
      axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 11, titleFontSize: 11, titleFontWeight: 500, titlePadding: 8, labelOverlap: "greedy", labelSeparation: 4 },
      legend: { labelColor: ink, orient: "bottom", direction: "horizontal", columns: 3, symbolType: "circle", labelFontSize: 11 },
    };
  }

  async function drawCharts() {
    for (const place of findAll("[data-chart]")) {
      const name = place.dataset.chart;
      views[name]?.finalize();
      const controls = find(".chart-controls", place.closest("figure"));
      controls.replaceChildren();
      // `ast`: expressions are interpreted, so the page needs no right to evaluate code.
      const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: showTip, bind: controls, config: config() };
      views[name] = (await vegaEmbed(place, structuredClone(data.charts[name]), options)).view;
    }
    document.documentElement.dataset.charts = "drawn";
  }

  async function saveChart(name) {
    const link = make("a");
    link.href = await views[name].toImageURL("svg");
    link.download = `${name}.svg`;
    link.click();
  }

  for (const button of findAll("[data-save]")) button.addEventListener("click", () => saveChart(button.dataset.save));

  // --- light and dark ----------------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const redraw = () => typeof vegaEmbed === "function" && drawCharts();
  find("#theme").addEventListener("click", () => {
    const isDark = (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", redraw);
  redraw();
})();
