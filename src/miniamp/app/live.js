// Looks for news of the model, draws it, and leaves everything else as it is.
let titles = "";
let token = "";
let paused = false;

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
look();
