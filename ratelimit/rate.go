package ratelimit

import "time"

// maxDebt bounds how far a bucket may be overdrawn.
const maxDebt = 24 * time.Hour

// Demand is what one request asks of one limit.
type Demand struct {
	Key    string    // names the limit; of a budget also the period
	Limit  float64   // units a minute, or the budget for the period; above 0
	Amount float64   // units to take now; a budget is settled only
	Ends   time.Time // of a budget: the end of its period; zero = a limit of units a minute
}

// IsBudget reports whether the demand is for a budget.
func (d *Demand) IsBudget() bool { return !d.Ends.IsZero() }

// Level is the state of a limit after a decision.
type Level struct {
	Limit     float64       // units a minute, or the budget
	Remaining float64       // units that can be taken now, at least 0
	Reset     time.Duration // until all units can be taken
	Wait      time.Duration // until the demand can be met; 0 = it could be
	Taken     float64       // units taken; 0 if the request was not allowed
	Spent     float64       // of a budget, as far as it is known
}

// Allowed reports whether each limit could meet its demand, so that units were taken.
func Allowed(levels []Level) bool {
	for i := range levels {
		if levels[i].Wait > 0 {
			return false
		}
	}
	return true
}

// Interval returns the time in which the limit allows so many units.
func Interval(limit, units float64) time.Duration {
	ns := units * float64(time.Minute) / limit
	return time.Duration(min(max(ns, -float64(maxDebt)), float64(maxDebt)))
}

// Burst returns how far ahead of now a bucket may be used up: a minute, or the time of one unit if that is longer.
func Burst(limit float64) time.Duration { return max(time.Minute, Interval(limit, 1)) }

// Room returns how many units of an amount a full bucket can meet. It holds at least one unit.
func Room(limit, amount float64) float64 { return min(amount, max(limit, 1)) }

// RateLevel returns the level of a limit whose bucket is full again after used; wait is how long the demand has to wait.
func RateLevel(limit float64, used, wait time.Duration) Level {
	free := max(Burst(limit)-max(used, 0), 0)
	return Level{Limit: limit, Remaining: float64(free) / float64(time.Minute) * limit, Reset: max(used, 0), Wait: wait}
}

// BudgetLevel returns the level of a budget that ends after left, of which so much is spent.
func BudgetLevel(limit, spent float64, left time.Duration) Level {
	l := Level{Limit: limit, Remaining: max(limit-spent, 0), Reset: max(left, 0), Spent: spent}
	if spent >= limit {
		l.Wait = max(left, time.Second)
	}
	return l
}
