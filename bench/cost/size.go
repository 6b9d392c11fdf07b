package cost

import "time"

// Size is how much a run does.
type Size struct {
	Rounds int

	Clients   int           // of the saturated scenario
	PlainTime time.Duration // of one turn

	SpacedTime time.Duration // of one turn
	Share      float64       // of what the chain can carry

	Streams, Chunks, GapMillis int

	TraceRounds int
	TraceTime   time.Duration // of one turn

	Sessions, Messages int // messages of each session in one turn

	Open          int           // streams whose memory is measured
	Waiting       int           // requests that wait
	Many          int           // streams at once
	OpenGapMillis int           // between two chunks of streams that are held open
	Settle        time.Duration // until memory is measured

	Starts int

	Backlog    int           // events that sinks lack
	ShipRate   float64       // requests a second beside them
	ShipTime   time.Duration // of one turn
	ShipRounds int           // of two turns each
}

// Full takes about ten minutes.
func Full() Size {
	return Size{
		Rounds: 7, Clients: 64, PlainTime: 1500 * time.Millisecond, SpacedTime: 3 * time.Second, Share: 1.0 / 3,
		Streams: 150, Chunks: 400, GapMillis: 5, Sessions: 100, Messages: 200,
		TraceRounds: 40, TraceTime: 600 * time.Millisecond,
		Open: 4000, Waiting: 4000, Many: 10000, OpenGapMillis: 1000, Settle: 6 * time.Second, Starts: 11,
		Backlog: 150_000, ShipRate: 1000, ShipTime: 1500 * time.Millisecond, ShipRounds: 24,
	}
}

// Quick takes less than two minutes.
func Quick() Size {
	return Size{
		Rounds: 3, Clients: 64, PlainTime: 500 * time.Millisecond, SpacedTime: 700 * time.Millisecond, Share: 1.0 / 3,
		Streams: 150, Chunks: 100, GapMillis: 5, Sessions: 50, Messages: 50,
		TraceRounds: 8, TraceTime: 300 * time.Millisecond,
		Open: 1000, Waiting: 1000, Many: 2000, OpenGapMillis: 500, Settle: time.Second, Starts: 3,
		Backlog: 200_000, ShipRate: 1000, ShipTime: 700 * time.Millisecond, ShipRounds: 2,
	}
}

// Tiny shows only that everything is served.
func Tiny() Size {
	return Size{
		Rounds: 1, Clients: 2, PlainTime: 10 * time.Millisecond, SpacedTime: 20 * time.Millisecond, Share: 1.0 / 3,
		Streams: 2, Chunks: 3, GapMillis: 1, Sessions: 2, Messages: 2,
		TraceRounds: 1, TraceTime: 10 * time.Millisecond,
		Open: 3, Waiting: 3, Many: 4, OpenGapMillis: 5, Settle: 10 * time.Millisecond, Starts: 1,
		Backlog: 20_000, ShipRate: 200, ShipTime: 50 * time.Millisecond, ShipRounds: 1,
	}
}
