package admin

import (
	"fmt"
	"net/http"
	"slices"

	"colonnade/forwarding/httpguard"
)

// guard refuses what a browser sends for a page of another origin, and requests under a name that is not the node's own: the owner of
// another name can point it at this listener after a page was loaded from it (DNS rebinding). Only browsers of this machine and over
// TLS say which page has sent a plain GET request; for the others, the name is all there is.
type guard struct {
	names []string // of Config.Hosts, as httpguard.HostName returns them
	pages http.Handler
}

func newGuard(hosts []string, pages http.Handler) *guard {
	g := &guard{pages: pages}
	for _, host := range hosts {
		g.names = append(g.names, httpguard.HostName(host))
	}
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.isOwn(r.Host):
		writeText(w, http.StatusMisdirectedRequest, fmt.Sprintf(
			"these pages are not served under the name %.100q: use an IP address, localhost or the node's own name, or add the name to the flag -admin-hosts\n",
			httpguard.HostName(r.Host)))
	case isForeign(r):
		writeText(w, http.StatusForbidden, "these pages are not for web pages of other origins: open the address in a tab of its own\n")
	default:
		g.pages.ServeHTTP(w, r)
	}
}

// isOwn reports whether a Host header names this node. Clients without one are no browsers.
func (g *guard) isOwn(host string) bool {
	name := httpguard.HostName(host)
	return host == "" || httpguard.IsFixedHost(name) || slices.Contains(g.names, name)
}

// isForeign reports whether a browser has sent the request for a page of another origin.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	case "same-origin":
		return false
	} // "none" is a user's own doing, and says nothing of an Origin
	for _, origin := range r.Header.Values("Origin") {
		if !httpguard.IsOriginOf(origin, r.Host) {
			return true
		}
	}
	return false
}
