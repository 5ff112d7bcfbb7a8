// The token: from the person, or from the end of the address, which no request carries. It becomes a cookie that no script can read,
// and is kept nowhere else.
import { $, say } from './dom.js';
import * as api from './api.js';

/** Several answers may ask for the token at once; the person is asked once. */
let asking = null;
api.useSignIn(() => (asking ??= ask().finally(() => { asking = null; })));

function ask() {
  const dialog = $('sign-in');
  dialog.showModal();
  return new Promise((done) => {
    const leave = () => done(false);
    dialog.addEventListener('cancel', leave, { once: true });
    $('sign-in-form').onsubmit = async (event) => {
      event.preventDefault();
      const good = await api.open($('token').value.trim()).catch(() => false);
      $('sign-in-problem').hidden = good;
      say($('sign-in-problem'), good ? '' : 'That is not the token of this server.');
      if (!good) return $('token').select();
      $('token').value = '';
      dialog.removeEventListener('cancel', leave);
      dialog.close();
      done(true);
    };
  });
}

/** Signs in with the token in the address, if there is one, and takes it out: it must stay neither in the history nor on a screenshot. */
export async function tokenInAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return;
  history.replaceState(null, '', location.pathname);
  await api.open(token).catch(() => false);
}
