"""What breaks Headway at length: kills, full disks, damaged files and odd input, each also a program by its path."""
