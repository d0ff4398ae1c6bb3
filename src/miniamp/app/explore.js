// Asks for the theory's answer while controls move, shows it, and keeps the address.
const PULSE = 250; // milliseconds between looks at what has been computed since
const controls = [...document.querySelectorAll(".control [name]")];
let values = null; // of all controls, from the first answer on
let shown = "";
let known = 0; // how many parts of the answer have come
let asking = null;

// What a control cannot show, such as a value between two steps of a slider, stays as it was.
const question = () => (values ? "?" + new URLSearchParams(values) : location.search || "?");

function showValues() {
  controls.forEach((control) => {
    if (control !== document.activeElement) control.value = values[control.name];
    const label = byId(control.name + "-row").querySelector("output");
    if (label) label.textContent = Number(values[control.name]);
  });
}

function show(answer) {
  values = answer.values;
  showValues();
  Object.entries(answer.hidden).forEach(([name, hidden]) => {
    byId(name + "-row").hidden = hidden;
  });
  Object.entries(answer.texts).forEach(([id, text]) => { byId(id).textContent = text; });
  byId("words").innerHTML = answer.words;
  history.replaceState(null, "", location.pathname + answer.link);
  byId("here").href = location.href;
  figures = answer.figures;
  draw();
}

// One question at a time: a newer one takes the place of that which waits for its answer.
async function ask(moved) {
  if (asking && !moved) return;
  if (asking) asking.abort();
  if (moved) known = 0;
  let more = false;
  const mine = new AbortController();
  asking = mine;
  try {
    const state = `&known=${known}&shown=${encodeURIComponent(shown)}`;
    const reply = await fetch("answer" + question() + state, { signal: mine.signal });
    const answer = await reply.json();
    ({ known, more } = answer);
    if (answer.shown !== shown) show(answer);
    shown = answer.shown;
  } catch (error) {
    if (error.name !== "AbortError") {
      byId("status").textContent = "the page's server does not answer";
    }
  }
  if (asking !== mine) return;
  asking = null;
  if (more) ask(false);
}

controls.forEach((control) => {
  const event = control.type === "range" || control.tagName === "SELECT" ? "input" : "change";
  control.addEventListener(event, () => {
    if (!values) return;
    values[control.name] = control.value;
    showValues();
    ask(true);
  });
});
["simulate", "stop"].forEach((name) => {
  byId(name).addEventListener("click", () => fetch(name + question(), { method: "POST" }));
});
window.setInterval(() => ask(false), PULSE);
ask(true);
