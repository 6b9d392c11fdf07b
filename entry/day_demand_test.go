package entry

import (
	"math"
	"time"
)

// Demand of the simulated day.
const (
	dayMeanLoad  = 0.6                    // of all slots, over the whole day
	daySwing     = 0.65                   // demand of a region goes from 1-daySwing to 1+daySwing times its mean
	dayPeakHour  = 15.0                   // local time of the highest demand
	dayMeanHold  = 10 * time.Second       // of a permit
	dayFirstByte = 300 * time.Millisecond // from the permit to the engine's first byte
	dayLongBody  = 0.1                    // share of requests with a body that does not travel from colo to colo
)

// daySchedule is what happens when. Times of day are UTC.
type daySchedule struct {
	hour time.Duration // an hour of the day lasts so long in virtual time
}

// at returns the virtual time of an hour of the day.
func (s daySchedule) at(hour float64) time.Duration { return time.Duration(hour * float64(s.hour)) }

// hourOf returns the hour of the day of a virtual time.
func (s daySchedule) hourOf(at time.Duration) float64 { return float64(at) / float64(s.hour) }

// demand returns the demand of a region at a virtual time, relative to its mean over the day. It follows the sun.
func (s daySchedule) demand(longitude float64, at time.Duration) float64 {
	local := s.hourOf(at) + longitude/15
	return 1 + daySwing*math.Cos(2*math.Pi*(local-dayPeakHour)/24)
}

// The region that is lost at noon answers nothing until two hours later.
const (
	dayLostRegion = "weur"
	dayLostFrom   = 12.0
	dayLostTo     = 14.0
)

// lost returns when the colos of a region are silent.
func (s daySchedule) lost(region string) (from, to time.Duration) {
	if region != dayLostRegion {
		return math.MaxInt64, math.MaxInt64
	}
	return s.at(dayLostFrom), s.at(dayLostTo)
}

// A third of the attempts at engines of one region fail for an hour, as after a bad release.
const (
	dayBadRegion = "cnam"
	dayBadFrom   = 5.0
	dayBadTo     = 6.0
)

// failing returns the probability that an engine fails a request before its first byte.
func (s daySchedule) failing(region string, at time.Duration) float64 {
	if hour := s.hourOf(at); region == dayBadRegion && hour >= dayBadFrom && hour < dayBadTo {
		return 0.33
	}
	return 0.002
}
