package relay

// For external tests.
var ErrTruncated = errTruncated

const HeartbeatInterval = heartbeatInterval
