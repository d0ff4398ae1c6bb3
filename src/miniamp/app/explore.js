// Draws the explorer's figures in the colours of the reader's light or dark; keeps its link.
window.dash_clientside = Object.assign({}, window.dash_clientside, { miniamp: {
  draw: function (figures, theme) {
    const palette = PALETTES[theme || "light"];
    const plots = figures || [];
    if (!plots.length) throw window.dash_clientside.PreventUpdate;
    return plots.map((figure) => {
      if (!figure || !figure.layout) return window.dash_clientside.no_update;
      const { data, layout } = coloured(figure, "", palette);
      const font = { color: palette.ink };
      layout.hoverlabel = { ...layout.hoverlabel, bgcolor: palette.hover, font };
      layout.template = {};
      layout.uirevision = "kept";
      return { data, layout };
    });
  },
  theme: function () {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const name = () => (dark.matches ? "dark" : "light");
    dark.onchange = () => window.dash_clientside.set_props("theme", { data: name() });
    return name();
  },
  link: function (query) {
    if (query) window.history.replaceState(null, "", window.location.pathname + query);
    return window.location.href;
  },
} });
