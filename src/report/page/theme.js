// Light, dark, or as the system has it.
const THEMES = ['auto', 'light', 'dark'];
let theme = 'auto';
try { theme = localStorage.getItem('prepose-report-theme') ?? 'auto'; } catch { /* Not kept. */ }

function setTheme(next) {
  theme = THEMES.includes(next) ? next : 'auto';
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const sign = { auto: '◐', light: '○', dark: '●' }[theme];
  $('theme').textContent = `${sign} ${theme}`;
  $('theme').setAttribute('aria-label', `Colours: ${theme === 'auto' ? 'as the system has it' : theme}. Change`);
  try { localStorage.setItem('prepose-report-theme', theme); } catch { /* Not kept. */ }
}
const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]);
$('theme').addEventListener('click', nextTheme);
setTheme(theme);
