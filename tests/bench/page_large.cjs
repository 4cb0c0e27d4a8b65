// How the page holds up with a model of 1,000 layers, 2,000 operators: milliseconds from a key or click to the next
// picture, the frames while something moves, and the tasks that kept the page's thread longer than 50 ms.
//   ./dev node tests/bench/page_large.cjs [modules]
// after `./dev test page` built the page; "modules": the operators lie in modules, as PyTorch exports them.
const { launch, npy, openPage, openTab, quantize, serve, buffer } = require("../page/page.js");
const { largeOnnx } = require("../page/large-onnx.js");

// Runs in the page: what happens while `act` does its work. Frames are the times between pictures.
async function harness(act, argument) {
  const long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ type: "longtask" });
  const picture = async () => {
    await new Promise(requestAnimationFrame);
    await new Promise((resolve) => setTimeout(resolve));
  };
  // Until the picture after `step`.
  const timed = async (step) => {
    await picture();
    const began = performance.now();
    step();
    await picture();
    return performance.now() - began;
  };
  // Calls `step` before each of `count` pictures.
  const frames = async (count, step) => {
    const out = [];
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < count; ++i) {
      step(i);
      const now = await new Promise(requestAnimationFrame);
      out.push(now - last);
      last = now;
    }
    return out;
  };
  const times = await act({ timed, frames, argument });
  await new Promise((resolve) => setTimeout(resolve, 100));
  observer.disconnect();
  return { times: [times].flat(), long };
}
// As text, which the page's policy does not forbid.
const measured = (page, act, argument) =>
  page.evaluate(`(${harness})(${act}, ${JSON.stringify(argument) ?? "undefined"})`);

function tell(name, { times, long }) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(1);
  const what = times.length === 1 ? at(0) : `median ${at(0.5)}, 95 % ${at(0.95)}, most ${at(1)}`;
  const tasks = long.length > 0 ? `; long tasks: ${long.map((each) => each.toFixed(0)).join(", ")}` : "";
  console.log(`${name.padEnd(34)} ${what} ms${tasks}`);
}

const click = ({ timed, argument }) => timed(() => document.querySelector(argument).click());
const scroll = ({ frames }) => {
  const box = document.querySelector("#layers-view .scroll");
  box.scrollTop = 0;
  return frames(120, () => {
    box.scrollTop += 700;
  });
};
const type = async ({ timed, argument: [selector, text] }) => {
  const input = document.querySelector(selector);
  const times = [];
  for (let i = 1; i <= text.length; ++i)
    times.push(
      await timed(() => {
        input.value = text.slice(0, i);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }),
    );
  return times;
};
const pan = ({ frames }) => {
  const canvas = document.querySelector("#graph svg.graph");
  const { left, top } = canvas.getBoundingClientRect();
  const move = (type, i) =>
    canvas.dispatchEvent(
      new PointerEvent(type, { pointerId: 1, clientX: left + 300, clientY: top + 500 - 40 * (i % 60), bubbles: true }),
    );
  move("pointerdown", 0);
  return frames(60, (i) => move("pointermove", i + 1)).then((times) => {
    move("pointerup", 60);
    return times;
  });
};
const zoom = ({ frames }) =>
  frames(40, (i) => document.querySelector(`[title="zoom ${i < 20 ? "out" : "in"}"]`).click());

(async () => {
  const server = await serve();
  const browser = await launch();
  const { page } = await openPage(browser, server.url);
  page.setDefaultTimeout(600000);
  const hasModules = process.argv[2] === "modules";
  const { model } = largeOnnx(1000, { hasModules });
  const began = performance.now();
  await page.setInputFiles("#model-file", buffer("deep.onnx", model));
  await page.waitForSelector("#layers-view tbody tr:not(.gap)");
  console.log(`from the file to the table of layers: ${((performance.now() - began) / 1000).toFixed(2)} s`);
  const look = async (state) => {
    await openTab(page, "layers");
    tell(`${state}: scroll the layers`, await measured(page, scroll));
    tell(`${state}: search the layers`, await measured(page, type, ["#layer-filter", "conv2d_777"]));
    await page.fill("#layer-filter", "");
    tell(`${state}: open the graph`, await measured(page, click, "#tab-graph"));
    tell(`${state}: open all modules`, await measured(page, click, '[title="Open all modules"]'));
    tell(`${state}: move the graph`, await measured(page, pan));
    tell(`${state}: zoom the graph`, await measured(page, zoom));
    tell(`${state}: fit the graph`, await measured(page, click, "[title^=Fit]"));
    tell(`${state}: search the graph`, await measured(page, type, ["#graph-search", "conv2d_777"]));
    tell(`${state}: back to the layers`, await measured(page, click, "#tab-layers"));
  };
  await look("opened");
  const samples = npy(
    [4, 4, 8, 8],
    Array.from({ length: 1024 }, (_, i) => Math.sin(i)),
  );
  await page.setInputFiles("#calibration-files", buffer("samples.npy", samples));
  await page.waitForSelector("#calibration-summary:not(:empty)");
  const start = performance.now();
  const work = measured(page, ({ frames }) => frames(120, () => undefined));
  await quantize(page);
  tell("frames of two seconds of quantizing", await work);
  console.log(`quantized and measured: ${((performance.now() - start) / 1000).toFixed(2)} s`);
  await look("quantized");
  for (const tab of ["result", "observers", "predictions", "compare", "pareto"])
    tell(`open ${tab}`, await measured(page, click, `#tab-${tab}`));
  await browser.close();
  server.close();
})();
