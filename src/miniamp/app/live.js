// Looks for news of the model, draws it, and leaves everything else as it is.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
let figures = [];
let titles = "";
let token = "";
let paused = false;

function draw() {
  const palette = PALETTES[dark.matches ? "dark" : "light"];
  figures.forEach((figure, i) => {
    const { data, layout } = coloured(figure, "", palette);
    const font = { color: palette.ink };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: palette.hover, font };
    layout.uirevision = "kept"; // where the reader has zoomed to
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    Plotly.react(byId("plot" + i), data, layout, options);
  });
}

function show(news) {
  const open = byId("below").querySelector("details[open]") !== null;
  byId("above").innerHTML = news.above;
  byId("below").innerHTML = news.below;
  if (open) byId("below").querySelectorAll("details").forEach((each) => { each.open = true; });
  if (news.titles.join("\n") !== titles) {
    titles = news.titles.join("\n");
    byId("cards").innerHTML = news.cards;
  }
  figures = news.figures;
  draw();
}

async function look() {
  if (!paused) {
    try {
      const answer = await fetch("state?token=" + encodeURIComponent(token));
      const news = await answer.json();
      byId("status").textContent = news.status;
      if (news.token !== token && !paused) {
        if (news.figures) show(news);
        token = news.token;
      }
    } catch (error) {
      byId("status").textContent = "the page's server does not answer";
    }
  }
  window.setTimeout(look, 1000);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").textContent = paused ? "Resume" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (paused) byId("status").textContent = "paused; the learner goes on";
});
dark.addEventListener("change", draw);
look();
