// The shell of the console without a network: index.html and the files that its names never change.
// Nothing that says anything about a session is kept here.

const CACHE = "pilothouse-shell-1";
const MOST = 80;

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.add(new Request("./", { cache: "reload" })))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  const scope = new URL(self.registration.scope);
  if (request.method !== "GET" || url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return;
  const path = url.pathname.slice(scope.pathname.length);
  if (path === "" || path === "index.html") event.respondWith(newest(request));
  else if (/^(assets|icons)\//.test(path)) event.respondWith(kept(request));
});

// A notification leads to its session: in a page that is open already, else in a new one.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openAt(event.notification.data));
});

async function openAt(hash) {
  const place = typeof hash === "string" && hash.startsWith("#/") ? hash : "#/";
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages.find((each) => each.url.startsWith(self.registration.scope));
  if (!page) return self.clients.openWindow(self.registration.scope + place);
  page.postMessage({ open: place });
  return page.focus();
}

/** The server's page; the kept one only where no server answers. */
async function newest(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put("./", response.clone());
    return response;
  } catch (error) {
    const known = await cache.match("./");
    if (known) return known;
    throw error;
  }
}

/** Names of assets have their content's hash: what was kept once stays right. */
async function kept(request) {
  const cache = await caches.open(CACHE);
  const known = await cache.match(request);
  if (known) return known;
  const response = await fetch(request);
  if (response.ok) {
    await cache.put(request, response.clone());
    const names = await cache.keys();
    for (const old of names.slice(1, Math.max(1, names.length - MOST))) await cache.delete(old);
  }
  return response;
}
