/** Where the page is: the part of the address behind the hash, so that a link is all that has to be passed on. */
export interface Route {
  view: string;
  values: URLSearchParams;
}

export function routeOf(hash: string): Route {
  const [view = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { view: view || "overview", values: new URLSearchParams(query) };
}

export function hrefOf(view: string, values: Record<string, string> = {}): string {
  const query = new URLSearchParams(values).toString();
  return `#${view}${query ? `?${query}` : ""}`;
}

export const here = (): Route => routeOf(location.hash);

export function go(view: string, values: Record<string, string> = {}): void {
  location.hash = hrefOf(view, values);
}

/** Changes the address without a step in the history of the browser. */
export function note(view: string, values: Record<string, string>): void {
  history.replaceState(null, "", hrefOf(view, values));
}
