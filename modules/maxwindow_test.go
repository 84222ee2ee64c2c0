package modules

// MaxWindow is maxWindow, for tests.
const MaxWindow = maxWindow
