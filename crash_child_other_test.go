//go:build !linux

package croft_test

func crashMain() {}
