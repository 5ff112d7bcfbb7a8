// Which pictures are shown, and in which order.
const FACETS = [
  { key: 'method', title: 'Method', names: DATA.methods, of: (p) => [p.method] },
  { key: 'verdict', title: 'Verdict', names: VERDICTS.map((name, i) => `${MARKS[i]} ${name}`), of: (p) => [p.verdict] },
  { key: 'relation', title: 'Relation', names: [...DATA.relations.map(words), 'none'], of: relationsOf },
  { key: 'reason', title: 'Why undecidable', names: [], of: (p) => (p.reason ? [REASONS.indexOf(p.reason)] : []) },
  { key: 'people', title: 'People say', names: VERDICTS.slice(0, 3).map((name, i) => `${MARKS[i]} ${name}`), of: (p) => (p.human < 0 ? [] : [p.human]) },
];
const REASONS = [...new Set(PICTURES.map((p) => p.reason))].filter(Boolean).sort();
FACETS[3].names = REASONS.map(words);

function relationsOf(picture) {
  const stated = PROMPTS[picture.prompt].relations;
  return stated.length ? stated : [DATA.relations.length];
}

const ORDERS = [
  ['run', 'as made', null],
  ['least', 'least sure first', (p, q) => sure(p) - sure(q)],
  ['most', 'most sure first', (p, q) => sure(q) - sure(p)],
  ['prompt', 'by prompt', (p, q) => PROMPTS[p.prompt].text.localeCompare(PROMPTS[q.prompt].text) || bySeed(p.seed, q.seed)],
  ['pse', 'lowest PSE first', (p, q) => pse(p) - pse(q)],
];
// Seeds are texts of digits, as some have more of them than a number here.
const bySeed = (a, b) => a.length - b.length || (a > b) - (a < b);
// Pictures without the number come last either way.
const sure = (p) => (p.verdict > 1 || p.conf === null ? 2 : p.conf);
const pse = (p) => (p.scores && p.scores[10] !== null ? p.scores[10] : 2);
ORDERS[2][2] = (p, q) => (sure(p) > 1) - (sure(q) > 1) || sure(q) - sure(p);

for (const picture of PICTURES) picture.facets = FACETS.map((facet) => facet.of(picture));

/** What is asked for. */
const wanted = { q: '', low: 0, high: 1, order: 'run', sets: FACETS.map(() => new Set()) };

/** What can be searched of a picture, made when it is first asked for. */
function haystack(picture) {
  return (picture.hay ??= [
    PROMPTS[picture.prompt].low, picture.id, DATA.methods[picture.method], words(picture.reason), picture.reason,
    ...picture.records.flatMap((r) => [DATA.words[r[1]], DATA.words[r[2]], DATA.reasons[r[4]] ?? '']),
  ].join(' ').toLowerCase());
}

/** The pictures that fit, in order, and for each facet how many each of its values would give. */
function filtered() {
  const terms = wanted.q.toLowerCase().split(/\s+/).filter((term) => term && term !== '-');
  const plain = terms.filter((term) => term[0] !== '-');
  const never = terms.filter((term) => term[0] === '-').map((term) => term.slice(1));
  const any = wanted.low <= 0 && wanted.high >= 1;
  const counts = FACETS.map(({ names }) => Array(names.length).fill(0));
  const fitting = [];
  for (const picture of PICTURES) {
    if (!any && (picture.conf === null || picture.conf < wanted.low || picture.conf > wanted.high)) continue;
    if (terms.length) {
      const hay = haystack(picture);
      if (!plain.every((term) => hay.includes(term)) || never.some((term) => hay.includes(term))) continue;
    }
    // A picture counts for a facet's values if nothing but that facet may keep it out.
    let misses = 0, missed = -1;
    for (let i = 0; i < FACETS.length; i++) {
      const set = wanted.sets[i];
      if (set.size && !picture.facets[i].some((value) => set.has(value))) { misses++; missed = i; }
    }
    if (!misses) {
      fitting.push(picture);
      for (let i = 0; i < FACETS.length; i++) for (const value of picture.facets[i]) counts[i][value]++;
    } else if (misses === 1) for (const value of picture.facets[missed]) counts[missed][value]++;
  }
  const compare = ORDERS.find(([key]) => key === wanted.order)?.[2];
  if (compare) fitting.sort((p, q) => compare(p, q) || p.index - q.index);
  return { fitting, counts };
}

/** The filters as they stand in the address, and back. */
function toAddress() {
  const parts = new URLSearchParams();
  if (wanted.q) parts.set('q', wanted.q);
  FACETS.forEach(({ key, names }, i) => {
    if (wanted.sets[i].size) parts.set(key, [...wanted.sets[i]].sort((a, b) => a - b).map((value) => nameInAddress(key, names[value])).join('|'));
  });
  if (wanted.low > 0) parts.set('low', wanted.low);
  if (wanted.high < 1) parts.set('high', wanted.high);
  if (wanted.order !== 'run') parts.set('order', wanted.order);
  return parts;
}

function fromAddress(parts) {
  wanted.q = parts.get('q') ?? '';
  FACETS.forEach(({ key, names }, i) => {
    const asked = (parts.get(key) ?? '').split('|');
    wanted.sets[i] = new Set(names.map((name, value) => [nameInAddress(key, name), value])
      .filter(([name]) => asked.includes(name)).map(([, value]) => value));
  });
  const share = (name, otherwise) => {
    const value = Number(parts.get(name) ?? otherwise);
    return value >= 0 && value <= 1 ? value : otherwise;
  };
  wanted.low = share('low', 0);
  wanted.high = share('high', 1);
  wanted.order = ORDERS.some(([key]) => key === parts.get('order')) ? parts.get('order') : 'run';
}

/** Without the mark before a verdict. */
const nameInAddress = (key, name) => (key === 'verdict' || key === 'people' ? name.slice(2) : name);
