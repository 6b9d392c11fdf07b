package homes_test

// rule is a rule that a history can leave out, to show that it is needed.
type rule string

const (
	nothing                   rule = ""
	grantsEndBeforePut        rule = "grants end before the put that gives the engine up"
	heldAtHandover            rule = "an engine is given up with what is held on it"
	takenByOthers             rule = "what others hold counts as taken"
	othersOwn                 rule = "no other record owns the engine"
	laterPut                  rule = "nothing is taken up again before a later put is known to stand"
	putsInOrder               rule = "a put requires that the record is as it was"
	emptyRecordAtRegistration rule = "the registration puts a record that owns nothing"
	heldAtRegistration        rule = "the registration puts what is held"
	verifiedRecord            rule = "a renewal verifies the record"
	cautionAfterRestore       rule = "nothing new is owned for one TTL after the store was restored"
	replacedOnlyUnregistered  rule = "the record of another process is changed only while that is not registered"
	answerEndsGrants          rule = "a process that answers that it may not grant grants nothing"
	linger                    rule = "the record of a dead process is deleted 250 ms later"
	silentHold                rule = "a silent process is written off after silent_hold only"
	comparisonAtGrant         rule = "the fence is compared at each grant"
	comparisonBeforeSending   rule = "the fence is compared right before a request is sent"
	lapseEndsWithStore        rule = "a fence that has lapsed comes back with the store only"
	vouchedByAll              rule = "all siblings vouch"
	questionEndsVouching      rule = "a process that was asked about its record does not go on without the store"
)

func (s *simulation) without(r rule) bool { return s.broken == r }
