package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// bound puts the process into a job that may commit this much memory; 0 means unlimited.
func bound(memory int64) error {
	if memory == 0 || memory > 1<<62 {
		return nil
	}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY},
		ProcessMemoryLimit:    uintptr(memory + overhead),
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	return nil // the job lasts as long as the process
}
