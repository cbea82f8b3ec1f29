"""What every scenario needs: processes, jars, the arms that are compared, samples and their report."""
