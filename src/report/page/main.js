// The filters' controls, keys, and the address.
const chips = FACETS.map((facet, i) => {
  const present = new Set(PICTURES.flatMap((picture) => picture.facets[i]));
  // A choice of one is none.
  if (present.size < 2 && facet.key !== 'method') return [];
  const nodes = facet.names.map((name, value) => {
    if (!present.has(value)) return null;
    const box = element('input', { type: 'checkbox' });
    const count = element('small');
    box.addEventListener('change', () => {
      if (box.checked) wanted.sets[i].add(value); else wanted.sets[i].delete(value);
      refresh();
    });
    return { box, count, value, node: element('label', { class: 'chip' }, box, element('span', {}, element('b', {}, name), count)) };
  }).filter(Boolean);
  if (nodes.length) $('groups').append(element('fieldset', {}, element('legend', {}, facet.title), element('div', { class: 'chips' }, nodes.map(({ node }) => node))));
  return nodes;
});
// The confidence belongs to the verdict.
$('groups').children[chips[1].length ? 1 : 0].after($('confidence'));
for (const [key, name] of ORDERS) {
  if (key === 'pse' && !PICTURES.some((picture) => pse(picture) < 2)) continue;
  $('order').append(element('option', { value: key }, name));
}
if (!PICTURES.some((picture) => picture.conf !== null)) $('confidence').hidden = true;
if (DATA.methods.length < 2) $('view').disabled = true;
if (!PICTURES.some((picture) => picture.masks.some(Boolean))) $('masks').parentNode.hidden = true;

/** Filters anew. */
function refresh() {
  const result = filtered();
  fitting = result.fitting;
  chips.forEach((nodes, i) => nodes.forEach(({ box, count, node, value }) => {
    box.checked = wanted.sets[i].has(value);
    count.textContent = result.counts[i][value].toLocaleString('en');
    node.classList.toggle('empty', !result.counts[i][value]);
  }));
  const total = PICTURES.length.toLocaleString('en');
  $('count').textContent = fitting.length === PICTURES.length ? `${total} pictures` : `${fitting.length.toLocaleString('en')} of ${total} pictures`;
  $('none').hidden = fitting.length > 0;
  Object.assign(cursor, { line: 0, column: 0 });
  const before = grid.getBoundingClientRect().top;
  arrange();
  // Fewer pictures must not leave the reader below the last of them.
  if (before < 0 && scrollY > 0) {
    const head = $('top').offsetHeight + (matchMedia('(max-width: 60rem)').matches ? $('filters').offsetHeight : 0) + 8;
    scrollBy({ top: grid.getBoundingClientRect().top - head, behavior: 'instant' });
    draw();
  }
  keepAddress();
}

/** Puts the controls where the filters are. */
function showControls() {
  $('q').value = wanted.q;
  $('low').value = wanted.low;
  $('high').value = wanted.high;
  $('order').value = wanted.order;
  showRange();
}

function showRange() {
  const range = document.querySelector('.range');
  range.style.setProperty('--low', wanted.low);
  range.style.setProperty('--high', wanted.high);
  $('range').textContent = `${wanted.low.toFixed(2)} to ${wanted.high.toFixed(2)}`;
}

function keepAddress() {
  const parts = toAddress();
  if ($('view').value !== 'grid') parts.set('view', $('view').value);
  if ($('boxes').value !== '0') parts.set('boxes', $('boxes').value);
  if ($('masks').checked) parts.set('masks', '1');
  if (shown.picture) parts.set('picture', shown.picture.id);
  const hash = parts.toString();
  const now = location.hash.slice(1);
  if (hash === (now.includes('=') ? now : '')) return;
  try { history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search); } catch { /* Not kept. */ }
}

/** Shows what the address says, all of it: what it does not name is as at first. False if it names nothing, or a part of the page. */
function readAddress() {
  const hash = location.hash.slice(1);
  if (!hash.includes('=')) return false;
  const parts = new URLSearchParams(hash);
  fromAddress(parts);
  $('view').value = parts.get('view') === 'compare' && DATA.methods.length > 1 ? 'compare' : 'grid';
  $('boxes').value = ['1', '2'].includes(parts.get('boxes')) ? parts.get('boxes') : '0';
  $('masks').checked = parts.get('masks') === '1';
  const picture = PICTURES.find(({ id }) => id === parts.get('picture'));
  // What is open goes before the list is made anew, so that closing it writes nothing old into the address.
  shown.picture = picture ?? null;
  if (!picture && detail.open) detail.close();
  showControls();
  refresh();
  document.getElementById('gallery').scrollIntoView({ behavior: 'instant' });
  if (picture) openDetail(picture);
  return true;
}

/** The address was changed in the open page. */
function addressChanged() {
  if (!readAddress() && !location.hash.slice(1)) {
    for (const [id, first] of [['view', 'grid'], ['boxes', '0']]) $(id).value = first;
    $('masks').checked = false;
    if (detail.open) detail.close();
    reset();
  }
}

function reset() {
  fromAddress(new URLSearchParams());
  showControls();
  refresh();
}

/** The same picture stays in sight when only its surroundings change. */
function rearrange() {
  const here = layout.lines[cursor.line]?.[cursor.column];
  arrange();
  const line = here ? layout.lines.findIndex((line) => line.includes(here)) : -1;
  if (line > 0 && grid.getBoundingClientRect().top < 0) moveTo(line, layout.lines[line].indexOf(here), false);
  keepAddress();
}

$('q').addEventListener('input', () => { wanted.q = $('q').value; refresh(); });
for (const end of ['low', 'high']) $(end).addEventListener('input', () => {
  const value = Number($(end).value);
  wanted[end] = end === 'low' ? Math.min(value, wanted.high) : Math.max(value, wanted.low);
  $(end).value = wanted[end];
  showRange();
  refresh();
});
$('order').addEventListener('change', () => { wanted.order = $('order').value; refresh(); });
for (const id of ['view', 'boxes', 'size', 'masks']) $(id).addEventListener('change', rearrange);
$('reset').addEventListener('click', reset);
$('more').addEventListener('click', () => {
  const open = $('filters').classList.toggle('open');
  $('more').setAttribute('aria-expanded', String(open));
});
$('filters').addEventListener('submit', (event) => event.preventDefault());
$('help-button').addEventListener('click', () => $('help').showModal());
$('help').addEventListener('click', (event) => { if (event.target === $('help')) $('help').close(); });

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { target } = event;
  if (target.matches('input[type=search]')) {
    if (event.key === 'Escape' && target.value) { event.preventDefault(); target.value = ''; wanted.q = ''; refresh(); }
    if (event.key === 'ArrowDown' || event.key === 'Enter') { event.preventDefault(); moveTo(0, 0); }
    return;
  }
  if (target.matches('select, textarea, input[type=text]') || $('help').open) return;
  const cycle = (id) => {
    const select = $(id);
    if (select.disabled) return;
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    const inside = grid.contains(document.activeElement);
    const here = { ...cursor };
    rearrange();
    if (inside) moveTo(cursor.line || here.line, cursor.column);
  };
  const acts = {
    '/': () => { $('gallery').scrollIntoView({ behavior: 'instant' }); $('q').focus({ preventScroll: true }); $('q').select(); },
    '?': () => $('help').showModal(),
    t: nextTheme,
    b: () => cycle('boxes'),
    c: () => cycle('view'),
    s: () => { if (!$('masks').parentNode.hidden) $('masks').click(); },
    x: reset,
  };
  if (detail.open && event.key !== '?' && event.key.toLowerCase() !== 't') return;
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// The part of the report that is read is marked in the head.
const links = [...document.querySelectorAll('#top nav a')];
const reading = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) if (isIntersecting) {
    for (const link of links) link.toggleAttribute('aria-current', link.hash === `#${target.id}`);
  }
}, { rootMargin: '-30% 0px -65% 0px' });
for (const link of links) reading.observe(document.querySelector(link.hash));

showFirstLook();
showControls();
if (!readAddress()) refresh();
addEventListener('hashchange', addressChanged);
