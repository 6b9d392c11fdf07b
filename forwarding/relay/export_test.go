package relay

// What tests look at.
var ErrTruncated = errTruncated

const Heartbeat = heartbeatInterval
