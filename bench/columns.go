package bench

// Columns of more than one scenario.
var (
	columnGoodput = column{Name: "goodput", Unit: "%", Better: higher, Key: true, Help: "work of completely answered requests, " +
		"relative to the capacity."}
	columnJain = column{Name: "Jain", Better: higher, Key: true, Help: "Jain's index of the slot time of the accounts that ask for " +
		"more than their share; 1 is fair."}
	columnWaitP50 = column{Name: "wait p50", Unit: "ms", Better: lower, Help: "time to first token without the engine's own time, " +
		"median of the requests that were not refused."}
	columnWaitP99 = column{Name: "wait p99", Unit: "ms", Better: lower, Key: true, Help: "the same, 99th percentile."}
	columnRefused = column{Name: "refused", Unit: "%", Help: "share of the requests that were refused."}
	columnRefusal = column{Name: "refusal p99", Unit: "ms", Better: lower, Help: "time to a refusal on arrival, 99th percentile."}
	columnFailed  = column{Name: "failed", Better: lower, Help: "requests that got neither a complete answer nor a refusal."}
	columnLeaked  = column{Name: "leaked", Better: lower, Help: "requests still held after all had ended."}
)

// withKey is the column as a key column, or not.
func (c column) withKey(key bool) column {
	c.Key = key
	return c
}

// withHelp is the column with another explanation.
func (c column) withHelp(text string) column {
	c.Help = text
	return c
}
