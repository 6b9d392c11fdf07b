package document

import (
	"net/url"
	"strings"

	"colonnade/fleet"
)

func validURL(s string) bool {
	_, ok := normalURL(s)
	return ok
}

// ownPorts are the ports that URLs of a scheme have where they say none.
var ownPorts = map[string]string{"http": ":80", "https": ":443"}

// normalURL returns the form of an engine's URL in which two of the same engine are equal: lower case, without the
// scheme's own port, without trailing slashes and /v1.
func normalURL(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || !validHost(u) || u.User != nil || u.Opaque != "" || strings.ContainsAny(s, "?#") {
		return "", false
	}
	port := ownPorts[u.Scheme]
	path := strings.TrimSuffix(u.Path, "/")
	if port == "" || path != "" && !(pathPattern.MatchString(path) && cleanPath(path)) || u.EscapedPath() != u.Path {
		return "", false
	}
	for {
		shorter := strings.TrimSuffix(strings.TrimRight(path, "/"), "/v1")
		if shorter == path {
			break
		}
		path = shorter
	}
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), port) + path, true
}

func validKVEvents(s string) bool {
	_, ok := fleet.KVEventAddresses(s)
	return ok
}
