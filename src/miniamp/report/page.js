// Draws every figure in the colours of the reader's light or dark, and again when that changes.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const figures = JSON.parse(document.getElementById("figures").textContent);

function draw() {
  const palette = PALETTES[dark.matches ? "dark" : "light"];
  figures.forEach((figure, i) => {
    const { data, layout } = coloured(figure, "", palette);
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: palette.hover, font: { color: palette.ink } };
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    Plotly.react(document.getElementById("plot" + i), data, layout, options);
  });
}

draw();
dark.addEventListener("change", draw);

// A click on a heading sorts its table; another one turns the order around.
document.querySelectorAll("table.sortable").forEach((table) => {
  const heads = [...table.querySelectorAll("th")];
  heads.forEach((head, j) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") === "descending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.children[j];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const order = (a, b) => {
      if (typeof a === "string" || typeof b === "string") return String(b).localeCompare(String(a));
      return (Number.isNaN(b) ? -Infinity : b) - (Number.isNaN(a) ? -Infinity : a);
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => order(key(a), key(b)));
    table.tBodies[0].append(...(up ? rows.reverse() : rows));
  }));
});
