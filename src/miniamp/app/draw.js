// Draws figures in the colours of the reader's light or dark, again when these change.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
let figures = [];

function draw() {
  const palette = PALETTES[dark.matches ? "dark" : "light"];
  figures.forEach((figure, i) => {
    if (!figure) return;
    const { data, layout } = coloured(figure, "", palette);
    const font = { color: palette.ink };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: palette.hover, font };
    layout.uirevision = "kept"; // where the reader has zoomed to
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    Plotly.react(byId("plot" + i), data, layout, options);
  });
}

dark.addEventListener("change", draw);
