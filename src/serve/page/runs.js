// Run folders that the server was started with: their list, and the report of one, which is a page of its own.
import { $, element, plural } from './dom.js';
import * as api from './api.js';

const view = $('runs');

export async function showRuns(name) {
  view.replaceChildren(element('p', { class: 'empty' }, 'Reading…'));
  let runs;
  try { runs = await api.runs(); } catch (error) {
    view.replaceChildren(element('p', { class: 'empty', role: 'alert' }, error.message));
    return;
  }
  const all = runs?.runs ?? runs ?? [];
  if (name) return showReport(all.find((run) => run.name === name), name);
  if (!all.length) {
    view.replaceChildren(element('div', { class: 'empty' }, element('p', { class: 'lead' }, 'No runs here.'),
      element('p', {}, 'Start the server with the folder that holds your runs, and their reports stand here: ', element('code', {}, 'prepose serve --runs runs/'))));
    return;
  }
  view.replaceChildren(element('ul', { class: 'runs-list' }, all.map((run) => element('li', {},
    run.report === false ? element('b', {}, run.name) : element('a', { href: `#/runs/${encodeURIComponent(run.name)}` }, run.name),
    element('span', { class: 'note' }, [run.pictures !== undefined && plural(run.pictures, 'picture'), run.methods?.length && run.methods.join(', '), run.report === false && 'no report yet; prepose report makes one'].filter(Boolean).join(' · '))))));
}

function showReport(run, name) {
  if (!run) {
    view.replaceChildren(element('p', { class: 'empty', role: 'alert' }, `There is no run ${name}.`));
    return;
  }
  const address = api.reportAddress(run.name);
  view.replaceChildren(
    element('div', { class: 'runs-bar' }, element('a', { href: '#/runs' }, '← Runs'), element('h2', {}, run.name), element('a', { href: address, target: '_blank', rel: 'noopener' }, 'Open alone')),
    element('iframe', { src: address, title: `Report of ${run.name}`, class: 'report' }));
}
