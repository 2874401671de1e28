"""Read what ExecuTorch and Vela compute on their way and do not return."""
