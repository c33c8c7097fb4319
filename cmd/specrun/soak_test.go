//go:build soak

package main

import "testing"

func TestSoakKillsAtRandomMoments(t *testing.T) { testKills(t, buildSpecrun(t), 30) }
