package fleet

import (
	"net/url"
	"strings"
)

const acceptedURL = `must be a URL such as "http://10.0.0.7:8000": http or https, a host, perhaps a port and a path; no query, fragment, user or password`

// checkURL checks the URL of an endpoint. One with a user is not shown, since a password stands beside it.
func checkURL(s string) *fieldError {
	if _, ok := normalURL(s); ok {
		return nil
	}
	if strings.Contains(s, "@") || strings.Contains(s, "?") {
		return &fieldError{Value: "(not shown)", Reason: acceptedURL}
	}
	return &fieldError{Value: quote(s), Reason: acceptedURL}
}

// normalURL returns the form of an engine's URL in which two of the same engine are equal: lower case, without the
// scheme's own port, without trailing slashes and /v1.
func normalURL(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || !validHost(u) || u.User != nil || u.Opaque != "" || strings.ContainsAny(s, "?#") {
		return "", false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	path := strings.TrimSuffix(u.Path, "/")
	if port == "" || path != "" && !validPath(path) || u.EscapedPath() != u.Path {
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
