package sinks

import (
	"regexp"
	"strings"
)

// likeURL matches what begins like a URL, also of a scheme that there is not: a part such as b:9092/events of several hosts does not.
var likeURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:/`)

// Join puts URLs together again that were split at commas, as flags and environment variables are: a part that does not begin like a URL of a
// sink belongs to the one before it.
func Join(parts []string) []string {
	var urls []string
	for _, part := range parts {
		name, _, _ := strings.Cut(part, ":")
		if n := len(urls); n > 0 && schemeOf(name) == nil && !likeURL.MatchString(part) && !strings.Contains(part, "://") {
			urls[n-1] += "," + part
			continue
		}
		urls = append(urls, strings.TrimSpace(part))
	}
	return urls
}
