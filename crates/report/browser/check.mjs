// Opens reports in a headless browser, bright and dark: node check.mjs report.html ..
//
// Fails where a page logs an error or loads anything, and where a chart is not drawn: it has no size, no shape inside
// it, a part that leaves it, or no colour. Exits with 3 where the browser does not start or last.
import { pathToFileURL } from 'node:url';
import chromium from '@sparticuz/chromium';
import puppeteer from 'puppeteer-core';

/** What is wrong with the charts of the page; runs in the browser. */
function faults() {
  const found = [];
  const inside = (box, of) =>
    box.left >= of.left - 1 && box.right <= of.right + 1 && box.top >= of.top - 1 && box.bottom <= of.bottom + 1;
  for (const chart of document.querySelectorAll('svg.chart')) {
    const name = chart.querySelector('title')?.textContent ?? 'a bar';
    const frame = chart.getBoundingClientRect();
    if (frame.width < 50 || frame.height < 5) found.push(`${name} has no size`);
    const shapes = [...chart.querySelectorAll('[class^="fill-"], polyline')];
    if (shapes.length === 0) found.push(`${name} has no shape`);
    for (const shape of shapes) {
      const style = getComputedStyle(shape);
      if (style.fill === 'none' && style.stroke === 'none') found.push(`${name} has a shape without colour`);
    }
    for (const part of chart.querySelectorAll('rect, circle, polyline, text')) {
      if (!inside(part.getBoundingClientRect(), frame)) found.push(`${name}: ${part.outerHTML} leaves it`);
    }
    if (getComputedStyle(chart).color === getComputedStyle(document.body).backgroundColor) {
      found.push(`${name} has the colour of the page`);
    }
  }
  for (const script of document.querySelectorAll('script')) JSON.parse(script.textContent);
  if (document.documentElement.scrollWidth > window.innerWidth) found.push('the page is wider than the window');
  return { found, charts: document.querySelectorAll('svg.chart').length };
}

async function launched() {
  try {
    const executablePath = await chromium.executablePath();
    return await puppeteer.launch({ args: chromium.args, executablePath, headless: 'shell' });
  } catch (error) {
    console.error(`the browser does not start here: ${error}`);
    process.exit(3);
  }
}

/** Opens a page and returns what is wrong with it. */
async function check(browser, file, scheme) {
  const page = await browser.newPage();
  const said = [];
  const address = pathToFileURL(file).href;
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => request.url() === address || said.push(`loads ${request.url()}`));
  await page.setViewport({ width: 1000, height: 800 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.goto(address);
  const { found, charts } = await page.evaluate(faults);
  found.push(...said);
  if (charts === 0) found.push('it has no chart');
  console.log(`${file}, ${scheme}: ${charts} charts, ${found.length} faults`);
  found.forEach((fault) => console.log(`  ${fault}`));
  await page.close();
  return found;
}

const browser = await launched();
let failed = false;
try {
  for (const file of process.argv.slice(2)) {
    for (const scheme of ['light', 'dark']) {
      failed = (await check(browser, file, scheme)).length > 0 || failed;
    }
  }
} catch (error) {
  if (!['TargetCloseError', 'ConnectionClosedError', 'TimeoutError'].includes(error.name)) throw error;
  console.error(`the browser does not last here: ${error}`);
  process.exit(3);
}
await browser.close();
process.exit(failed ? 1 : 0);
