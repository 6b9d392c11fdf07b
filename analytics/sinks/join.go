package sinks

import "strings"

// Join puts URLs together again that were split at commas, as flags and environment variables are: a part that does not begin like a URL of a
// sink belongs to the one before it.
func Join(parts []string) []string {
	var urls []string
	for _, part := range parts {
		name, _, _ := strings.Cut(part, ":")
		if n := len(urls); n > 0 && schemeOf(name) == nil && !strings.Contains(part, "://") {
			urls[n-1] += "," + part
			continue
		}
		urls = append(urls, strings.TrimSpace(part))
	}
	return urls
}
