// Bundlers that follow new URL(..., import.meta.url) find the module by themselves.
export const place = undefined;
export const workers = true;
