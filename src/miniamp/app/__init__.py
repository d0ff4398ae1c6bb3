"""Pages in the browser and a model over HTTP (extra: app).

`miniamp explore` shows the theory, `miniamp watch` a stream while it is learned, `miniamp serve`
learns and predicts over HTTP.
"""
