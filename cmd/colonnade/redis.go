package main

import "time"

// addRedis adds the entries that do not reach the Redis through which limits are shared.
func (l *problemList) addRedis(nodes []nodeState) {
	for i := range nodes {
		if c := nodes[i].Config; c != nil && c.Redis != nil && !c.Redis.Up {
			l.warnf(nodes[i].Document, "%s: Redis has not answered since %s, so it enforces its share of limits: %s",
				nodes[i].name(), c.Redis.Since.UTC().Format(time.TimeOnly+" MST"), c.Redis.Error)
		}
	}
}
