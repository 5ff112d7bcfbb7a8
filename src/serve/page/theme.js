// Before anything is painted: the colours that were chosen last, so that a dark page does not flash light.
{
  let kept = null;
  try { kept = localStorage.getItem('prepose-theme'); } catch { /* Kept nowhere. */ }
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
}
