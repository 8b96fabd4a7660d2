'use strict';
(() => {
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  // In both schemes, cells with few queries are close to the background colour, and cells with many are far from it.
  const heat = {
    light: [[0, '#cfe1f2'], [0.35, '#6baed6'], [0.7, '#2171b5'], [1, '#08306b']],
    dark: [[0, '#21415f'], [0.35, '#3f7fb5'], [0.7, '#8cc0e8'], [1, '#fdf3c4']],
  };
  const axis = {
    showline: true, zeroline: false, ticks: 'outside', ticklen: 4, gridwidth: 1, linecolor: '#888', tickcolor: '#888',
  };
  const near = (own) => Object.assign(own, { title: Object.assign({ standoff: 8 }, own.title) });
  const layoutOf = (figure) => {
    const own = figure.layout;
    const legend = {
      orientation: 'h', x: 0, xanchor: 'left', y: -0.17, yanchor: 'top', bgcolor: 'rgba(0,0,0,0)', font: { size: 12 },
    };
    const named = figure.traces.filter((trace) => trace.showlegend !== false && trace.type !== 'heatmap');
    return Object.assign({
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      font: { family: 'system-ui, "Liberation Sans", "DejaVu Sans", sans-serif', size: 12, color: '#444' },
      height: 380, margin: { l: 84, r: 84, t: 46, b: 44 }, hovermode: 'x unified', showlegend: named.length > 1,
      title: { text: figure.title, x: 0, xref: 'container', xanchor: 'left', font: { size: 15 } }, legend,
    }, own, {
      xaxis: near(Object.assign({}, axis, { automargin: true, showgrid: false }, own.xaxis)),
      yaxis: near(Object.assign({}, axis, own.yaxis)),
    });
  };
  const paint = (scheme) => figures.forEach((figure) => {
    figure.traces.forEach((trace, index) => {
      if (trace.type === 'heatmap') Plotly.restyle(figure.id, { colorscale: [heat[scheme]] }, [index]);
    });
  });
  const scheme = () => (dark.matches ? 'dark' : 'light');
  // Zooming into one chart over time zooms all of them.
  let isFollowing = false;
  const follow = (source, change) => {
    if (isFollowing) return;
    const range = change['xaxis.range[0]'] !== undefined
      ? { 'xaxis.range[0]': change['xaxis.range[0]'], 'xaxis.range[1]': change['xaxis.range[1]'] }
      : null;
    const isReset = change['xaxis.autorange'] !== undefined || change['xaxis.range'] !== undefined;
    if (!range && !isReset) return;
    isFollowing = true;
    const others = figures.filter((figure) => figure.is_timed && figure.id !== source.id);
    const whole = (figure) => ({ 'xaxis.range': figure.layout.xaxis.range.slice() });
    Promise.all(others.map((figure) => Plotly.relayout(figure.id, range || whole(figure))))
      .finally(() => { isFollowing = false; });
  };
  // Ticks of a logarithmic axis: at decades if several are visible, otherwise closer.
  const text = (value, isTime) => {
    const short = (number) => String(Number(number.toPrecision(3)));
    if (!isTime) return short(value);
    const [unit, size] = [['s', 1], ['ms', 1e-3], ['us', 1e-6], ['ns', 1e-9]].find((own) => value >= own[1] * 0.9995)
      || ['ns', 1e-9];
    return short(value / size) + ' ' + unit;
  };
  const ticks = (low, high) => {
    const span = high - low;
    const steps = span > 2.2 ? [1] : span > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
    if (span > 0.6) {
      const decades = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, at) => Math.floor(low) + at);
      return decades.flatMap((decade) => steps.map((step) => step * 10 ** decade));
    }
    const [from, to] = [10 ** low, 10 ** high];
    const rough = (to - from) / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const first = Math.ceil(from / step);
    return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, at) => (first + at) * step);
  };
  const refine = (figure) => {
    const change = {};
    for (const name of ['xaxis', 'yaxis']) {
      const own = figure.layout[name];
      const isTime = own.ticktext && own.ticktext.includes('1 us');
      if (own.type !== 'log' || !own.ticktext || own.ticktext.includes('min')) continue;
      const drawn = document.getElementById(figure.id)._fullLayout[name];
      const values = ticks(...drawn.range);
      if (JSON.stringify(drawn.tickvals) === JSON.stringify(values)) continue;
      change[name + '.tickvals'] = values;
      change[name + '.ticktext'] = values.map((value) => text(value, isTime));
    }
    if (Object.keys(change).length > 0) Plotly.relayout(figure.id, change);
  };
  for (const figure of figures) {
    for (const trace of figure.traces) if (trace.type === 'heatmap') trace.colorscale = heat[scheme()];
    const place = document.getElementById(figure.id);
    Plotly.newPlot(place, figure.traces, layoutOf(figure), {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ['lasso2d', 'select2d', 'autoScale2d'],
      toImageButtonOptions: { format: 'svg', filename: 'catlab-' + figure.id, width: 1000, height: 420 },
    }).then(() => {
      refine(figure);
      place.on('plotly_relayout', (change) => {
        if (figure.is_timed) follow(figure, change);
        refine(figure);
      });
    });
  }
  dark.addEventListener('change', () => paint(scheme()));
  // Printed charts have a fixed width: that of A4 without margins.
  const size = (of) => figures.forEach((figure) => Plotly.relayout(figure.id, of(figure)));
  addEventListener('beforeprint', () => {
    paint('light');
    const low = (figure) => Math.min(280, figure.layout.height || 280);
    size((figure) => ({ autosize: false, width: 700, height: low(figure), 'legend.y': -0.32 }));
  });
  addEventListener('afterprint', () => {
    paint(scheme());
    size((figure) => ({ autosize: true, width: null, height: figure.layout.height || 380, 'legend.y': -0.17 }));
  });
  for (const time of document.querySelectorAll('time[data-unix]')) {
    time.textContent = new Date(1000 * Number(time.dataset.unix)).toISOString().replace('T', ' ').replace('Z', ' UTC');
  }
})();
