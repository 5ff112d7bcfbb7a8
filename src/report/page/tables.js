// Tables that their heads sort: first falling for numbers and rising for names, then the other way, then as it was.
for (const table of document.querySelectorAll('.table table')) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  heads.forEach((head, column) => head.firstChild.addEventListener('click', () => {
    const value = (row) => {
      const { textContent: text, dataset } = row.cells[column];
      return text === '' || text === '–' ? null : dataset.value === undefined ? text : Number(dataset.value);
    };
    const numeric = original.some((row) => typeof value(row) === 'number');
    const turns = numeric ? ['descending', 'ascending', null] : ['ascending', 'descending', null];
    const now = turns[(turns.indexOf(head.getAttribute('aria-sort')) + 1) % 3];
    heads.forEach((other) => other.removeAttribute('aria-sort'));
    if (now) head.setAttribute('aria-sort', now);
    const sign = now === 'descending' ? -1 : 1;
    const order = (a, b) => {
      const [p, q] = [value(a), value(b)];
      // What is missing comes last either way.
      if (p === null || q === null) return (p === null) - (q === null);
      return sign * (typeof p === 'number' && typeof q === 'number' ? p - q : String(p).localeCompare(String(q), undefined, { numeric: true }));
    };
    body.append(...(now ? [...original].sort(order) : original));
  }));
}

// Copies of tables as they stand, sorted as they are.
const LATEX = { '&': '\\&', '%': '\\%', $: '\\$', '#': '\\#', _: '\\_', '{': '\\{', '}': '\\}', '\\': '\\textbackslash{}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}' };
const COPIES = {
  markdown(table) {
    const line = (cells) => `| ${cells.map((cell) => cell.replace(/[|]/g, '\\|').replace(/[\r\n]+/g, ' ')).join(' | ')} |\n`;
    return line(table.heads) + line(table.places.map((place) => (place === 'l' ? '---' : '---:'))) + table.rows.map(line).join('');
  },
  latex(table) {
    const safe = (cell) => cell.replace(/[&%$#_{}\\~^]/g, (letter) => LATEX[letter]);
    const line = (cells) => `    ${cells.map(safe).join(' & ')} \\\\\n`;
    return `% \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n  \\caption{${safe(table.title)}}\n  \\begin{tabular}{${table.places.join('')}}\n`
      + `    \\toprule\n${line(table.heads)}    \\midrule\n${table.rows.map(line).join('')}    \\bottomrule\n  \\end{tabular}\n\\end{table}\n`;
  },
};

/** To the clipboard; where that is not allowed, by a selection. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', { class: 'skip', '.value': text });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

for (const figure of document.querySelectorAll('.table')) {
  const table = figure.querySelector('table');
  for (const button of figure.querySelectorAll('[data-copy]')) button.addEventListener('click', async () => {
    const cells = (row) => [...row.cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows];
    const heads = cells(table.tHead.rows[0]);
    const places = heads.map((_, column) => (rows.some((row) => row.cells[column].dataset.value !== undefined) ? 'r' : 'l'));
    const title = figure.querySelector('h3').textContent;
    const before = button.textContent;
    const done = await copy(COPIES[button.dataset.copy]({ title, heads, places, rows: rows.map(cells) }));
    button.textContent = done ? 'Copied' : 'Not allowed here';
    setTimeout(() => { button.textContent = before; }, 1500);
  });
  figure.querySelector('.whole')?.addEventListener('click', ({ currentTarget }) => {
    const open = figure.classList.toggle('open');
    currentTarget.setAttribute('aria-expanded', String(open));
    currentTarget.textContent = open ? 'Fewer rows' : `All ${table.tBodies[0].rows.length} rows`;
  });
}
