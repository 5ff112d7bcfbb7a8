// Tables that their heads sort: first falling for numbers and rising for names, then the other way, then as it was.
for (const table of document.querySelectorAll('.table table')) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  heads.forEach((head, column) => head.firstChild.addEventListener('click', () => {
    const value = (row) => {
      const text = row.cells[column].textContent;
      const number = Number(text);
      return text === '' ? null : Number.isNaN(number) ? text : number;
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
