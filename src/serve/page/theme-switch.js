// Light, dark, or as the system has it. theme.js applies the choice before the first paint.
import { $ } from './dom.js';

const THEMES = ['auto', 'light', 'dark'];
const SIGNS = { auto: '◐', light: '○', dark: '●' };
const SAID = { auto: 'as the system has it', light: 'light', dark: 'dark' };
const listeners = new Set();

/** Calls `listener` when the colours change: what is drawn on a canvas has to be drawn again. */
export function onTheme(listener) { listeners.add(listener); }

let theme = document.documentElement.dataset.theme ?? 'auto';

function show() {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $('theme').textContent = SIGNS[theme];
  $('theme').title = `Colours: ${SAID[theme]} (T)`;
  $('theme').setAttribute('aria-label', `Colours: ${SAID[theme]}. Change`);
  for (const listener of listeners) listener();
}

export function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try { localStorage.setItem('prepose-theme', theme); } catch { /* Kept nowhere. */ }
  show();
}

$('theme').addEventListener('click', nextTheme);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
show();
