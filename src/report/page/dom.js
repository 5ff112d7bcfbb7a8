'use strict';
// What all scripts of the pages use.
const $ = (id) => document.getElementById(id);

/** An element with attributes, properties for those that start with a dot, and children. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name[0] === '.') node[name.slice(1)] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}
