// One picture and all that is known of it.
const detail = $('detail');
const shown = { picture: null, boxes: 1, masks: false, map: -1 };

function openDetail(picture) {
  shown.picture = picture;
  shown.map = -1;
  showDetail();
  if (!detail.open) detail.showModal();
  keepAddress();
}

/** The pictures in the order of the gallery. */
const sequence = () => layout.lines.flat().filter((picture) => picture.index !== undefined);

function neighbour(by) {
  const all = sequence();
  const at = all.indexOf(shown.picture);
  const next = all[at + by];
  if (next) openDetail(next);
}

function showDetail() {
  const { picture } = shown;
  const { text } = PROMPTS[picture.prompt];
  const all = sequence();
  const at = all.indexOf(picture);
  $('detail-title').textContent = text;
  $('detail-title').title = text;
  $('detail-place').textContent = at < 0 ? '' : `${(at + 1).toLocaleString('en')} of ${all.length.toLocaleString('en')}`;
  $('previous').disabled = at <= 0;
  $('next').disabled = at < 0 || at === all.length - 1;
  showStage();
  $('facts').replaceChildren(...facts(picture));
  $('related').replaceChildren(...related(picture));
  $('detail-body').scrollTop = 0;
}

/** The picture, or one of its attention maps, and the buttons that choose. */
function showStage() {
  const { picture, boxes, masks, map } = shown;
  const file = map < 0 ? undefined : address(picture, picture.maps[map][1]);
  const frame = $('detail-frame');
  fillFrame(frame, picture, { boxes, masks, labels: true }, file);
  const image = frame.querySelector('img');
  if (image) image.alt = `${PROMPTS[picture.prompt].text}, ${DATA.methods[picture.method]}, seed ${picture.seed}`;
  const choice = (text, pressed, act, key) => {
    const button = element('button', { type: 'button', 'aria-pressed': String(pressed), 'aria-keyshortcuts': key }, text);
    button.addEventListener('click', () => {
      act();
      const place = [...$('detail-tools').querySelectorAll('button')].indexOf(button);
      showStage();
      $('detail-tools').querySelectorAll('button')[place]?.focus();
    });
    return button;
  };
  const tools = [];
  if (picture.boxes.length) {
    tools.push(element('span', {}, 'Boxes'));
    ['none', 'chosen', 'all'].forEach((name, i) => tools.push(choice(name, boxes === i, () => { shown.boxes = i; }, 'B')));
  }
  if (picture.masks.some(Boolean)) {
    tools.push(element('span', {}, 'Masks'));
    tools.push(choice('outlines', masks, () => { shown.masks = !masks; }, 'S'));
  }
  if (picture.maps.length) {
    tools.push(element('span', {}, 'Attention'));
    tools.push(choice('picture', map < 0, () => { shown.map = -1; }, 'M'));
    picture.maps.forEach(([object], i) => tools.push(choice(words(object), map === i, () => { shown.map = i; }, 'M')));
  }
  $('detail-tools').replaceChildren(...tools);
}

const number = (value, digits = 3) => (value === null || value === undefined ? '–' : Number(value).toFixed(digits).replace(/\.?0+$/, ''));

function list(pairs) {
  return element('dl', {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, String(value))]));
}

function facts(picture) {
  const nodes = [element('p', { class: 'text' }, PROMPTS[picture.prompt].text)];
  const conf = picture.conf === null ? '' : `confidence ${picture.conf.toFixed(3)}`;
  nodes.push(element('p', { class: `verdict v${picture.verdict}` }, element('b', {}, `${MARKS[picture.verdict]} ${VERDICTS[picture.verdict]}`), element('span', { class: 'why' }, conf)));
  for (const record of picture.records) nodes.push(recordNode(picture, record));
  nodes.push(list([
    ['Method', DATA.methods[picture.method]], ['Seed', picture.seed], ['Prompt', PROMPTS[picture.prompt].id],
    ['People say', picture.human < 0 ? null : VERDICTS[picture.human]], ['Note', picture.note], ['Name', picture.id], ['Size', picture.size.join(' × ')],
  ]));
  if (picture.scores) nodes.push(element('section', {}, scoresNode(picture.scores)));
  const kinds = roles(picture);
  if (kinds.length) {
    const lines = kinds.map((kind, i) => [kind, boxOf(picture, i)]).sort((p, q) => q[1].score - p[1].score);
    const names = { a: 'first', b: 'second', other: '' };
    nodes.push(element('section', {}, element('h3', {}, `Detections (${lines.length})`), element('table', {}, element('tbody', {}, lines.map(([kind, box]) =>
      element('tr', {}, element('th', { scope: 'row' }, box.label), element('td', { class: 'number' }, box.score.toFixed(3)),
        element('td', {}, names[kind] && element('b', { class: `swatch ${kind}` }, names[kind])),
        element('td', { class: 'number' }, [box.x0, box.y0, box.x1, box.y1].map(Math.round).join(', '))))))));
  }
  return nodes;
}

function recordNode(picture, [relation, a, b, verdict, reason, conf, parts, delta, iou, margin, , , human]) {
  const several = picture.records.length > 1;
  const said = `${DATA.words[a]} ${words(DATA.relations[relation])} ${DATA.words[b]}`;
  const nodes = [element('h3', {}, several ? `${MARKS[verdict]} ${said}` : said)];
  if (reason >= 0) nodes.push(element('p', { class: 'why' }, DATA.reasons[reason]));
  if (parts.some((part) => part > 0)) {
    nodes.push(element('div', { class: 'parts' }, ['detection', 'geometry', 'stability', 'agreement'].flatMap((name, i) => {
      const bar = element('i', { 'aria-hidden': 'true' });
      bar.style.setProperty('--share', parts[i]);
      return [element('span', {}, name), bar, element('span', {}, parts[i].toFixed(2))];
    })));
  }
  if (delta !== null) nodes.push(list([['Offset of the centres', `${number(delta)} (margin ${number(margin)})`], ['Overlap (IoU)', number(iou)], ['Confidence', several ? number(conf) : null]]));
  if (human >= 0) nodes.push(list([['People say', VERDICTS[human]]]));
  return element('div', { class: 'record' }, nodes);
}

function scoresNode([calls, guided, candidates, seconds, found, objects, centre, geneval, t2i, hrs, pse, side, level]) {
  const yes = (value) => (value === null ? null : value ? 'holds' : 'does not hold');
  return [element('h3', {}, 'Other rules and cost'), list([
    ['Objects found', found === null ? null : `${found} of ${objects}`], ['Centres (VISOR)', yes(centre)], ['GenEval', yes(geneval)],
    ['T2I-CompBench', t2i === null ? null : number(t2i)], ['HRS', yes(hrs)], ['PSE', pse === null ? null : number(pse)],
    ['First object', [side, level].filter(Boolean).join(', ')],
    ['UNet calls', calls || null], ['Guided passes', guided || null], ['Noises tried', candidates > 1 ? candidates : null],
    ['Seconds', seconds ? number(seconds, 2) : null],
  ])];
}

/** A picture in a strip, which opens it. */
function stripNode(picture, name, drawing, current) {
  const frame = element('span', { class: 'frame' });
  fillFrame(frame, picture, drawing);
  const caption = element('span', { class: 'caption' }, element('span', { class: 'said' }, element('b', {}, MARKS[picture.verdict]), element('span', {}, name)));
  const button = element('button', { type: 'button', class: `v${picture.verdict}`, 'aria-current': current ? 'true' : null, 'aria-label': `${name}: ${spoken(picture)}`, title: name }, frame, caption);
  button.addEventListener('click', () => openDetail(picture));
  return button;
}

/** The same prompt and seed by the other methods, and the other seeds. */
function related(picture) {
  const drawing = { boxes: shown.boxes, masks: shown.masks };
  const strip = (title, pictures, name) => {
    if (pictures.length < 2) return null;
    const buttons = pictures.map((other) => stripNode(other, name(other), drawing, other === picture));
    return element('section', {}, element('h3', {}, title), element('div', { class: 'strip' }, buttons));
  };
  const twins = TWINS.get(`${picture.prompt} ${picture.seed}`).filter((i) => i !== undefined).map((i) => PICTURES[i]);
  const siblings = SIBLINGS.get(`${picture.method} ${picture.prompt}`).map((i) => PICTURES[i]);
  return [
    strip('The same prompt and seed', twins, (p) => DATA.methods[p.method]),
    strip('The other seeds', siblings, (p) => `seed ${p.seed}`),
  ].filter(Boolean);
}

/** Some pictures before the numbers, from all over the report. */
function showFirstLook() {
  const most = 10;
  const all = PICTURES.filter((picture) => picture.image);
  if (!all.length) return;
  const some = all.length <= most ? all : Array.from({ length: most }, (_, i) => all[Math.floor((i + 0.5) * all.length / most)]);
  const name = (picture) => `${DATA.methods[picture.method]}: ${PROMPTS[picture.prompt].text}`;
  $('first-look').querySelector('.strip').append(...some.map((picture) => stripNode(picture, name(picture), { boxes: 0 }, false)));
  $('first-look').hidden = false;
}

$('previous').addEventListener('click', () => neighbour(-1));
$('next').addEventListener('click', () => neighbour(1));
$('close').addEventListener('click', () => detail.close());
detail.addEventListener('click', (event) => { if (event.target === detail) detail.close(); });
detail.addEventListener('close', () => {
  // Back to the picture that was last shown, which may be another one than was opened.
  const line = layout.lines.findIndex((line) => line.includes(shown.picture));
  if (line >= 0) moveTo(line, layout.lines[line].indexOf(shown.picture));
  shown.picture = null;
  keepAddress();
});
detail.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    ArrowLeft: () => neighbour(-1),
    ArrowRight: () => neighbour(1),
    b: () => { shown.boxes = (shown.boxes + 1) % 3; showStage(); },
    s: () => { if (shown.picture.masks.some(Boolean)) { shown.masks = !shown.masks; showStage(); } },
    m: () => { if (shown.picture.maps.length) { shown.map = (shown.map + 2) % (shown.picture.maps.length + 1) - 1; showStage(); } },
  };
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});
