package compile

// Emulated compares a context with a model, for tests.
var Emulated = emulated
