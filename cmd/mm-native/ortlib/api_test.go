package ortlib

import (
	"fmt"
	"testing"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]uint32{
		fmt.Sprintf("1.%d.0", minMinor-1): 0, fmt.Sprintf("1.%d.0", minMinor): minMinor,
		fmt.Sprintf("1.%d.0", maxMinor): maxMinor, fmt.Sprintf("1.%d.0", maxMinor+1): maxMinor,

		"1.23.2": 23, "1.30.0": 30, "1.31.1": 30, "1.99.0": 30, "1.22.9": 0, "1.9.0": 0, "2.0.0": 0, "": 0, "1.30": 0, "1.99999.0": 0,
	} {
		if got, err := apiVersion(version); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is asked for table %d, %v; want %d", version, got, err, want)
		}
	}
}

// The indexes of functions match onnxruntime_c_api.h: the table only grows at its end.
func TestSlots(t *testing.T) {
	for name, c := range map[string]struct{ got, want slot }{
		"GetErrorMessage": {getErrorMessage, 2}, "CreateEnv": {createEnv, 3}, "DisableTelemetryEvents": {disableTelemetry, 6}, "CreateSession": {createSession, 7}, "Run": {run, 9},
		"CreateSessionOptions": {createSessionOptions, 10}, "SetIntraOpNumThreads": {setIntraOpThreads, 24}, "SessionGetInputCount": {sessionInputCount, 30},
		"SessionGetOutputName": {sessionOutputName, 37}, "CreateRunOptions": {createRunOptions, 39}, "RunOptionsSetTerminate": {runOptionsSetTerminate, 46},
		"CreateTensorAsOrtValue": {createTensor, 48}, "CreateTensorWithDataAsOrtValue": {createTensorWithData, 49}, "FillStringTensor": {fillStrings, 52}, "GetStringTensorDataLength": {stringsLength, 53}, "GetStringTensorContent": {stringsContent, 54}, "CreateCpuMemoryInfo": {createCPUMemoryInfo, 69}, "GetTensorMutableData": {tensorData, 51}, "GetDimensions": {dimensions, 62},
		"GetTensorTypeAndShape": {tensorTypeAndShape, 65}, "GetValueType": {valueType, 67}, "AllocatorFree": {allocatorFree, 76},
		"ReleaseStatus": {releaseStatus, 93}, "ReleaseSession": {releaseSession, 95}, "ReleaseValue": {releaseValue, 96}, "ReleaseRunOptions": {releaseRunOptions, 97},
		"ReleaseTypeInfo": {releaseTypeInfo, 98}, "ReleaseSessionOptions": {releaseSessionOptions, 100}, "AddSessionConfigEntry": {addSessionConfigEntry, 130},
	} {
		if c.got != c.want {
			t.Errorf("%s is at %d, not %d", name, c.got, c.want)
		}
	}
}
