// Search in pages opened from files, where browsers refuse workers: a worker's script runs in a hidden frame.
// In place of the script that mkdocs-material's plugin `offline` would load from unpkg.com; the name tells the plugin.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(inner, one)), Promise.resolve());
      this.ready = load(inner, url);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}

function load(inner, url) {
  return new Promise((resolve, reject) => {
    const script = inner.document.createElement("script");
    script.src = new URL(url, document.baseURI);
    script.onload = resolve;
    script.onerror = reject;
    inner.document.body.append(script);
  });
}
