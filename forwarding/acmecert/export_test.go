package acmecert

import "net/http"

// OpenOver is [Open] with another way to the authority.
var OpenOver = open

// HTTPHandler returns the handler of the listener for http-01.
func (s *Source) HTTPHandler() http.Handler { return s.httpHandler() }

// LogPeriod is the shortest time between two log lines about a name.
const LogPeriod = logPeriod
