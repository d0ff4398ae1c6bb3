// What pages have in common: the colours of figures for light and dark, tables that sort.
const PALETTES = {
  light: {
    1: "#0072b2", 2: "#d55e00", 3: "#009e73", 4: "#b0568a", 5: "#9a6f00", 6: "#3a93c8",
    7: "#5d4a9c", 8: "#6b6b6b", ink: "#1c2430", muted: "#5b6675", grid: "#e6e9ee",
    band: "rgba(91,102,117,0.13)", hover: "#ffffff",
    cell0: "#f4f8fc", cell1: "#8fc1e8",
  },
  dark: {
    1: "#5cb8f0", 2: "#ff9a57", 3: "#4fd1a5", 4: "#ec9ac6", 5: "#e3b94d", 6: "#9bd4f5",
    7: "#b5a5f0", 8: "#b0b7c0", ink: "#e6eaf0", muted: "#9aa6b5", grid: "#2e3742",
    band: "rgba(154,166,181,0.16)", hover: "#1b212a",
    cell0: "#222a35", cell1: "#1f6fa8",
  },
};

// Only values of keys that end in "color" or "colorscale" are tokens: a feature may be named "@1".
function coloured(value, key, palette) {
  if (Array.isArray(value)) return value.map((item) => coloured(item, key, palette));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, coloured(item, name, palette)])
    );
  }
  if (typeof value === "string" && /color(scale)?$/.test(key) && value.startsWith("@")) {
    return palette[value.slice(1)];
  }
  return value;
}

// A click on a heading sorts its table; another one turns the order around.
document.addEventListener("click", (event) => {
  const head = event.target.closest("table.sortable th");
  if (head === null) return;
  const table = head.closest("table");
  const heads = [...table.querySelectorAll("th")];
  const up = head.getAttribute("aria-sort") === "descending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => {
    const cell = row.children[heads.indexOf(head)];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const order = (a, b) => {
    if (typeof a === "string" || typeof b === "string") return String(b).localeCompare(String(a));
    return (Number.isNaN(b) ? -Infinity : b) - (Number.isNaN(a) ? -Infinity : a);
  };
  const rows = [...table.tBodies[0].rows].sort((a, b) => order(key(a), key(b)));
  table.tBodies[0].append(...(up ? rows.reverse() : rows));
});
