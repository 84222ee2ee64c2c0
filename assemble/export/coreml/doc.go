// Package coreml writes and reads packages of Core ML (.mlpackage): an ML program
// with its file of weights.
//
// The result is checked against the rules of the format, and by coremltools in
// make exports; Apple's compiler and devices are not available here, so an export
// is validated, not run on a device.
package coreml
