package acmecert

// OpenOver is [Open] with another way to the authority.
var OpenOver = open

// LogPeriod is the shortest time between two log lines about a name.
const LogPeriod = logPeriod
