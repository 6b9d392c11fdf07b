package permits

// MaxDeclined is maxDeclined, for tests.
const MaxDeclined = maxDeclined
