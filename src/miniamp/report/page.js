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
